print("this script builds no trainer")
